"""Real AMQP clients against a broker: what their users rely on must work unchanged.

Each module drives one client library through its public interface. The same assertions hold on
RabbitMQ 3.10: name it in `WARREN_TEST_BROKER=host:port` and run this folder. Versions are pinned in
the `test` extra of pyproject.toml; the Node client is fetched by npm when Node is installed.
"""
