"""What `celery -A` of a worker process loads; the application comes in its environment."""

from tests.interop.celery_tasks import from_environment

app = from_environment()
