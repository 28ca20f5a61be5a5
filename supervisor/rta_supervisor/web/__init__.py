"""What the supervisor shows over HTTP. Owns the server and who may ask; what there is to see is each page's own."""
