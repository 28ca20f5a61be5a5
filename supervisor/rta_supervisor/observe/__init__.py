"""What operators see: queries, samples, metrics, health, and a stream as it grows. Changes nothing."""
