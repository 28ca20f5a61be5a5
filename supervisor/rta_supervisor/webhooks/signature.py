"""The signature of a post, by which a receiver knows who sent it and when. Pure."""

import hashlib
import hmac
from typing import Final

SIGNATURE_HEADER: Final = "Rta-Signature"


def sign(secret: bytes, body: bytes, at_s: int) -> str:
    """The value of the header. The time is signed with the body, so that a recorded post can't be replayed later."""
    digest = hmac.new(secret, b"%d.%s" % (at_s, body), hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"
