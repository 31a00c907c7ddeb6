"""gunicorn's configuration for gramwatt: gunicorn --config deploy/gunicorn.conf.py.

GRAMWATT_BIND (127.0.0.1:8642) is the address, GRAMWATT_WORKERS (2) the number of processes. Serve
beyond this machine only behind a proxy that does TLS. `gramwatt serve --only-tasks` does the
periodic work.
"""

import os
import shutil
import tempfile

wsgi_app = "gramwatt.service.wsgi:create_app()"
bind = os.environ.get("GRAMWATT_BIND", "127.0.0.1:8642")
_WORKERS = os.environ.get("GRAMWATT_WORKERS", "2")
if not _WORKERS.isdecimal() or int(_WORKERS) < 1:
    raise SystemExit(f"GRAMWATT_WORKERS={_WORKERS!r} is not a number of processes, such as 2")
workers = int(_WORKERS)
worker_class = "gthread"
threads = 12  # as service/server.py says
timeout = 120
graceful_timeout = 20
keepalive = 5
control_socket_disable = True

# Every worker counts requests in files of this folder, and any of them answers for all; it has to
# be named before prometheus_client is imported. A server that is started anew counts from zero;
# SIGHUP reads this file again in the same process, and counts on.
_PREFIX = f"gramwatt-metrics-{os.getpid()}-"
_COUNTERS = os.environ.get("PROMETHEUS_MULTIPROC_DIR", "")
if not os.path.basename(_COUNTERS).startswith(_PREFIX):
    _COUNTERS = os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix=_PREFIX)

if os.environ.get("GRAMWATT_LOG") == "json":
    logconfig_dict = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "gramwatt.service.logs.JsonFormatter"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"level": "WARNING", "handlers": ["stderr"]},
        "loggers": {"gunicorn.error": {"level": "INFO", "handlers": [], "propagate": True}},
    }


def pre_request(_worker: object, request: object) -> None:
    """Close the connection after a request whose Host is malformed, which the app refuses, and
    after one in chunks: behind a torn one nobody knows where the next request begins.
    """
    from gramwatt.service.addresses import HOST

    for name, value in request.headers:
        if name == "TRANSFER-ENCODING" or (name == "HOST" and not HOST.fullmatch(value)):
            request.force_close()


def on_exit(_server: object) -> None:
    """Remove the counters' folder."""
    shutil.rmtree(_COUNTERS, ignore_errors=True)
