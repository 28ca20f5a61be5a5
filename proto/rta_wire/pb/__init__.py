"""The `.proto` files of the wire and of control messages, and the code that protoc makes of them."""
