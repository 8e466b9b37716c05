from starqe.seed import derive, generator


def test_a_derived_seed_is_the_same_on_every_machine_and_in_every_version():
    assert derive(0, "split") == 374788079615300020
    assert derive(7, "epoch order") == 7115824062044142693


def test_a_stream_draws_the_same_numbers_everywhere():
    assert generator(0, "split").integers(0, 1000, 5).tolist() == [273, 242, 205, 254, 234]


def test_two_purposes_and_two_seeds_have_streams_of_their_own():
    seeds = {derive(seed, purpose) for seed in range(50) for purpose in ("split", "epoch order", "weights")}
    assert len(seeds) == 150
    assert generator(0, "split").random() != generator(0, "weights").random()


def test_a_derived_seed_fits_63_bits():
    assert all(0 <= derive(seed, "split") < 2**63 for seed in range(200))
