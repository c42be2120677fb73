"""Starts the webhook: `python -m services.webhook`."""

from services._kit.base.clock import SystemClock
from services._kit.runtime.standalone import standalone
from services.webhook.app import Webhook
from services.webhook.settings import WebhookSettings

main = standalone(lambda settings: Webhook(settings, SystemClock()), WebhookSettings)

if __name__ == "__main__":
    main.exit()
