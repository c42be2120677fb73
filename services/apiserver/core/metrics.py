"""Counters of the API server in the format Prometheus scrapes."""

from prometheus_client import Counter, Gauge, Histogram

WATCHERS = Gauge("fleetlog_apiserver_watchers", "Open watches.", ["resource"])
WEBHOOK_SECONDS = Histogram("fleetlog_apiserver_webhook_seconds", "Time of admission webhook calls.", ["name"])
AUTHORIZATIONS = Counter(
    "fleetlog_apiserver_authorizations_total",
    "Decisions about requests of Fleetlog's services.",
    ["user", "verb", "group", "resource", "allowed"],
)
FLOW_TAKEN = Gauge("fleetlog_apiserver_flow_seats_taken", "Seats that requests of a level have.", ["level"])
FLOW_WAITING = Gauge("fleetlog_apiserver_flow_requests_waiting", "Requests that wait for a seat.", ["level"])
FLOW_REFUSED = Counter(
    "fleetlog_apiserver_flow_requests_refused_total", "Requests answered 429, by reason.", ["level", "reason"]
)
FLOW_SECONDS = Histogram(
    "fleetlog_apiserver_flow_wait_seconds", "Time for which requests waited for a seat that was not free.", ["level"]
)
TIMED_OUT = Counter("fleetlog_apiserver_requests_timed_out_total", "Requests answered 504 at their time limit.")
ASIDE_SECONDS = Histogram(
    "fleetlog_apiserver_aside_seconds", "Time of work aside of the event loop, waiting included.", ["where"]
)
ASIDE_ENDED = Counter(
    "fleetlog_apiserver_aside_ended_total", "Work aside of the event loop that died or was interrupted.", ["where"]
)
