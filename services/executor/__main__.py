"""Starts the executor: `python -m services.executor`."""

from services._kit.runtime.service_wiring import log_reader
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings

main = log_reader(Executor, ExecutorSettings)

if __name__ == "__main__":
    main.exit()
