"""The test kit: ensembles for the tests of applications, and free ports for them."""
