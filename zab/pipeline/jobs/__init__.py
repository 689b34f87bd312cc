"""The jobs: each is a function in the module of its name. `state` and `report` have packages of their own."""

from zab.pipeline import check_spark

check_spark()
