"""Libraries of server functions: one that a released version has is not changed under its name.

Loading it again would take the functions away from supervisors of that version, which then believe in data loss.
"""

import hashlib

from rta_supervisor.transport import function_loader

RELEASED = {
    "rtas_archive_1": "d9b716b100a776ed",
    "rtas_catalogue_1": "3e44b0df271a1891",
    "rtas_cold_1": "407859c4fbb7f7ff",
    "rtas_days_1": "a60b12d7fe4e9423",
    "rtas_hook_1": "a6132aa295f52f4b",
    "rtas_index_1": "6c0a3a6571cbe637",
    "rtas_lane_1": "51bb57c9e9d7a9fa",
    "rtas_lease_1": "e0535d21406cd18f",
    "rtas_letters_1": "88db4518d5c6d9ad",
    "rtas_look_1": "f11090029604f76b",
    "rtas_reply_1": "f912006b9e197225",
    "rtas_session_1": "4e1371abb599886d",
    "rtas_slots_1": "920d37e9db171003",
    "rtas_stream_1": "7375b725726dbd68",
}
"""Beginnings of the SHA-256 of the libraries of 0.1.0, by name."""


def test_a_released_library_has_the_content_it_was_released_with() -> None:
    digests = {
        function_loader.library_name(code): hashlib.sha256(code.encode()).hexdigest()[:16]
        for code in function_loader.libraries()
    }
    released = {name: digest for name, digest in digests.items() if name in RELEASED}
    assert released
    assert released == {name: RELEASED[name] for name in released}
