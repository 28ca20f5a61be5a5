"""What Spark calls: the data source, its writers and readers, metrics, and what is set up on the driver."""
