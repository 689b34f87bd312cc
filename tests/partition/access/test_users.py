"""What a login tells of users that do not exist."""

from collections import Counter
from random import Random

from zab.partition.access.scram import derived
from zab.partition.access.users import Users

MECHANISM = "SCRAM-SHA-256"


def users(*shapes, secret=b"of the cluster", seed=1):
    found = Users({}, Random(seed), secret)
    for number, (iterations, salt_bytes) in enumerate(shapes):
        credential = derived(MECHANISM, b"%d" % number, bytes([number % 256]) * salt_bytes, iterations)
        assert not found.changed(f"user{number}", {MECHANISM: str(credential)})
    return found


def shapes_of(one, count):
    return Counter(one.scram(MECHANISM, f"nobody{number}").shape for number in range(count))


def as_pairs(counted):
    return {(each.iterations, each.salt_bytes): number for each, number in counted.items()}


def test_users_that_do_not_exist_look_as_those_that_do():
    one = users(*[(8192, 26)] * 90, *[(10_000, 100)] * 10)
    counted = as_pairs(shapes_of(one, 1000))
    assert counted.keys() == {(8192, 26), (10_000, 100)}
    assert 850 < counted[8192, 26] < 950, "as often as among the others"
    assert as_pairs(shapes_of(users(), 10)) == {(4096, 24): 10}, "where there are none"


def test_a_shape_that_nobody_has_any_longer_is_not_invented():
    one = users((4096, 24), (8192, 24))
    one.changed("user0", {})
    assert as_pairs(shapes_of(one, 20)) == {(8192, 24): 20}
    credential = derived(MECHANISM, b"new", b"x" * 30, 5000)
    one.changed("user1", {MECHANISM: str(credential)})
    assert as_pairs(shapes_of(one, 20)) == {(5000, 30): 20}


def test_a_user_that_does_not_exist_is_the_same_at_all_brokers_and_after_a_restart():
    kept, other = users((4096, 24), seed=1), users((4096, 24), seed=2)
    assert kept.scram(MECHANISM, "nobody") == other.scram(MECHANISM, "nobody")
    assert kept.scram(MECHANISM, "nobody").salt != kept.scram(MECHANISM, "nobody else").salt
    alone = users((4096, 24), secret=b"", seed=3)
    assert alone.scram(MECHANISM, "nobody") == alone.scram(MECHANISM, "nobody")
    assert alone.scram(MECHANISM, "nobody") != users((4096, 24), secret=b"", seed=4).scram(MECHANISM, "nobody")
