"""How a server that was asked in place of the control plane says that a request is the control plane's own to answer.

It has no right to act in the names of others there. The server that sent the request on knows the caller, and answers.
"""

from __future__ import annotations

from typing import Final

STATUS: Final = 421
"""The status of such an answer: misdirected request."""
HEADER: Final = "Fleetlog-Sent-Back"
"""Its header; the value is `true`."""
LARGEST_BODY: Final = 3 << 20
"""Bytes of a body that is kept until it is known who answers; requests with longer ones are not sent back."""
