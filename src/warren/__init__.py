"""Warren: a message broker that speaks AMQP 0-9-1 the way RabbitMQ does.

Owns nothing but the version. Start reading at ARCHITECTURE.md, then `warren.session.connection`.
"""

__version__ = "0.1.0"
