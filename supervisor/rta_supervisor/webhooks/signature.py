"""Signs what is posted, so that a receiver knows who sent it and when. Pure."""
