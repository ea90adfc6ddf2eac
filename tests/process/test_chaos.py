# SPDX-License-Identifier: Apache-2.0
"""Goal: whoever is killed and whenever, the others go on, no byte is ever wrong, and nothing stays
behind. (Bug reports O1-18, O2-03, O3-01, O3-03, O3-05, O3-06, O3-19.)

Method: client processes that put, look up and load pages whose content follows from the key, over
more pages than the host pool holds. In each round one of them, or the daemon, gets SIGKILL at a
random moment; the daemon is started again at once over its pool (and its store, in half of the
rounds), and some of its successors are killed while they start. A round ends when every survivor
has been served again. Every now and then all clients end, what the daemon holds must be what it
held before the first, and others begin. $KVSIDECAR_KILL_ROUNDS: how many rounds in all;
$KVSIDECAR_SEED: the seed, which is printed.
"""
import collections
import os
import random
import time

import pytest

import accounts
from engines import EngineProcess
from waiting import readable

ROUNDS = int(os.environ.get("KVSIDECAR_KILL_ROUNDS", "500"))
LOOK_ROUNDS = 25  # between two looks at what the daemon holds
# Slots of unfinished I/O are aside until it can't land any more, which each death puts off: between
# two waits for that.
WAIT_ROUNDS = 250
CLIENTS = 3
DOCUMENTS = 500  # of up to 12 pages of 64 KiB: 375 MiB; the host pool has 128, the store 256
PAGE_BYTES = 65536
MOMENT_S, START_MOMENT_S = 0.06, 0.015
DAEMON_SHARE, START_SHARE = 0.4, 0.25


class Fleet:
    """Working clients, and one that stands by so that a round needn't wait for a new one."""

    def __init__(self, daemon, chance):
        self.daemon, self.chance = daemon, chance
        self.total = collections.Counter()
        self.epoch = 0
        self.begin()

    def begin(self):
        self.working = [self.spawn() for _ in range(CLIENTS)]
        self.spare = self.spawn()
        for engine in self.working:
            self.set_to_work(engine)

    def spawn(self):
        return EngineProcess(self.daemon.socket, PAGE_BYTES)

    def set_to_work(self, engine):
        engine.wait_ready().begin("work", self.chance.getrandbits(32), DOCUMENTS)

    def kill_one(self):
        self.working.pop(self.chance.randrange(CLIENTS)).kill()
        self.working.append(self.spare)
        self.set_to_work(self.spare)
        self.spare = self.spawn()

    def wait_for_service(self, after_epoch=0):
        """Until the present life of the daemon has served each of them."""
        for engine in self.working:
            _, epoch = engine.progress(engine.drop_lines(), after_epoch)
            self.epoch = max(self.epoch, epoch)

    def end(self):
        """Lets all end, and adds up what they tell."""
        for engine in self.working:
            engine.begin("connects")  # ends the work, whose report comes first
            self.total.update(engine.answer())
            self.total["reconnects"] += engine.answer() - 1
        for engine in self.working + [self.spare.wait_ready()]:
            assert engine.end() == 0


def wait_a_moment(daemon, seconds):
    """A random moment is reached. The daemon's end, which must not happen, cuts it short."""
    pidfd = os.pidfd_open(daemon.process.pid)
    try:
        assert not readable([pidfd], seconds), daemon.log()
    finally:
        os.close(pidfd)


def kill_the_daemon(daemon, chance):
    daemon.kill()
    while chance.random() < START_SHARE:
        daemon.spawn()
        wait_a_moment(daemon, chance.random() * START_MOMENT_S)
        daemon.kill()
    daemon.start()


def check_nothing_stayed(daemon, but=()):
    accounts.check_baseline(daemon, but)
    accounts.check_sums(accounts.status(daemon)["counters"])


@pytest.mark.parametrize("store", [{}, {"kind": "none", "root": ""}], ids=["store", "pool_only"])
def test_survivors_of_kills_go_on_and_never_see_a_wrong_byte(start, store):
    seed = int(os.environ.get("KVSIDECAR_SEED", random.SystemRandom().getrandbits(32)))
    print(f"KVSIDECAR_SEED={seed}")
    chance = random.Random(seed)
    daemon = start(store=store, host_pool={"bytes": "128MiB"})
    fleet = Fleet(daemon, chance)
    begin, daemon_kills = time.monotonic(), 0
    rounds = (ROUNDS + 1) // 2
    for number in range(1, rounds + 1):
        wait_a_moment(daemon, chance.random() * MOMENT_S)
        if chance.random() < DAEMON_SHARE:
            kill_the_daemon(daemon, chance)
            daemon_kills += 1
            fleet.wait_for_service(fleet.epoch)
        else:
            fleet.kill_one()
            fleet.wait_for_service()
        if number % LOOK_ROUNDS == 0:
            fleet.end()
            waits = store or number % WAIT_ROUNDS == 0 and number < rounds
            check_nothing_stayed(daemon, but=() if waits else ("quarantined",))
            fleet.begin()
    fleet.end()
    seconds = time.monotonic() - begin
    print(f"{rounds} rounds, {daemon_kills} of them against the daemon, in {seconds:.1f} s "
          f"({1000 * seconds / rounds:.0f} ms each): {dict(fleet.total)}, "
          f"{accounts.status(daemon)['host_pool']['slots_quarantined']} slots aside")
    assert fleet.total["wrong"] == 0
    assert fleet.total["loaded"] > 0 and fleet.total["put"] > 0  # and all comes back, once more
