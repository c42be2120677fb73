"""Starts the override renderer: `python -m services.override_renderer`."""

from services._kit.runtime.service_wiring import log_reader
from services.override_renderer.app import OverrideRenderer
from services.override_renderer.settings import RendererSettings

main = log_reader(lambda _: OverrideRenderer(), RendererSettings)

if __name__ == "__main__":
    main.exit()
