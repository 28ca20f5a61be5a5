"""What is larger than a message: payloads of requests, and pages of sessions in replies. Both have limits."""
