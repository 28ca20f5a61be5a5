"""The circuit breaker of one target: when nothing is sent to it, and when it is tried again. Pure."""


class Breaker:
    """Opens after some failures in a row: nothing is sent for a while. Then one delivery decides whether it closes."""

    def __init__(self, *, failures: int, open_s: float) -> None:
        self._limit = failures
        self._open_s = open_s
        self._failed = 0
        self._open_until_s = 0.0

    @property
    def is_open(self) -> bool:
        return self._failed >= self._limit

    def wait_s(self, now_s: float) -> float:
        """How long to send nothing from now on."""
        return max(0.0, self._open_until_s - now_s) if self.is_open else 0.0

    def record_failure(self, now_s: float) -> bool:
        """Note a failure. Returns whether it opened the breaker."""
        was_open = self.is_open
        self._failed += 1
        if self.is_open:
            self._open_until_s = now_s + self._open_s
        return self.is_open and not was_open

    def record_success(self) -> bool:
        """Note a success. Returns whether it closed the breaker."""
        was_open = self.is_open
        self._failed = 0
        return was_open
