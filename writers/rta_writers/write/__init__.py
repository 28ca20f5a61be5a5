"""Rows to bursts to XADD, in the delivery that was asked for, and the progress that is reported."""
