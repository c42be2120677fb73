"""Counters of the API server in the format Prometheus scrapes."""

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter("fleetlog_apiserver_requests_total", "Requests answered.", ["method", "code"])
REQUEST_SECONDS = Histogram(
    "fleetlog_apiserver_request_seconds",
    "Time to answer a request, watches left out.",
    ["method"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
WATCHERS = Gauge("fleetlog_apiserver_watchers", "Open watches.", ["resource"])
WEBHOOK_SECONDS = Histogram("fleetlog_apiserver_webhook_seconds", "Time of admission webhook calls.", ["name"])
