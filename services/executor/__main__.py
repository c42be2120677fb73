"""Starts the executor: `python -m services.executor`."""

from services._kit.runtime.service_wiring import Program
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings

main = Program(Executor, ExecutorSettings)

if __name__ == "__main__":
    main.exit()
