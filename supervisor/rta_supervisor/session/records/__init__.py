"""The records of sessions in Redis: read by field, and changed in calls of limited size."""
