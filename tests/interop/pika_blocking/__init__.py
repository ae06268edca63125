"""pika's blocking connection, the client that most Python programs use."""
