"""The WebSocket: sessions as they happen, to any number of viewers."""
