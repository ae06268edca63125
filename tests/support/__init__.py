"""Support for tests that talk to a broker over sockets.

`wire` is an independent AMQP client, `broker` starts or finds the broker under test, `bystander`
watches whether well-behaved clients suffer. Nothing here may import `warren`: it is an oracle.
"""
