"""The supervisor in one line, for `systemctl status`."""
