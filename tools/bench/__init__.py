"""The benchmark: scenarios, brokers, the runner and its report."""
