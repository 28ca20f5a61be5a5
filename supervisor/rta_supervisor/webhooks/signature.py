"""Signs what is posted, so that a receiver knows who sent it and when. Pure."""

import hashlib
import hmac
from typing import Final

HEADER: Final = "Rta-Signature"


def sign(secret: bytes, body: bytes, at_s: int) -> str:
    """The header's value. The time is signed with the body: what was recorded once can't be replayed later."""
    digest = hmac.new(secret, b"%d.%s" % (at_s, body), hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"
