"""The steps of a run, each written once for sync and async: they wait for the outside world only through `wait`."""
