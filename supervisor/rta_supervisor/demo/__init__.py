"""The main job on embedded defaults: three cars through Spark, read back and proven."""
