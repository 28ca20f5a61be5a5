"""The marks that writers leave beside their data: read in parts, and checked."""
