"""Epsilons of other accountants, made once: python3 golden/peers.py > golden/peers.json

Made with dp_accounting 0.6.0 (PLD, connect-the-dots, pessimistic) and prv_accountant 0.2.0 on Python 3.11.7, numpy 2.4.6, scipy 1.17.1.
Each row: relation, rate, noise multiplier (noise std / clip norm), steps, delta, dp_accounting's discretization and epsilon, prv_accountant's
(lower, upper) or null where it gives none (it knows zero-out only, and fails for some extreme settings). dp_accounting's discretization is chosen
per row so that halving it changes epsilon by less than 0.1 %.
"""
import json
import multiprocessing
import sys
import warnings

import dp_accounting as dp
from dp_accounting.pld import pld_privacy_accountant

warnings.filterwarnings("ignore")

RELATION = {"zero-out": dp.NeighboringRelation.ADD_OR_REMOVE_ONE, "replace": dp.NeighboringRelation.REPLACE_ONE}

# rate, noise multiplier, steps, delta, starting discretization
SETTINGS = [
    ("zero-out", 0.01, 1.0, 10000, 1e-5, 1e-4),
    ("zero-out", 0.01, 1.0, 10000, 1e-12, 1e-4),
    ("zero-out", 0.01, 1.0, 1000, 1e-3, 1e-4),
    ("zero-out", 0.01, 0.7, 1000, 1e-5, 1e-4),
    ("zero-out", 0.01, 0.5, 100, 1e-9, 1e-4),
    ("zero-out", 0.01, 0.3, 100, 1e-5, 1e-4),
    ("zero-out", 0.01, 5.0, 100000, 1e-6, 2e-5),
    ("zero-out", 0.01, 50.0, 1000000, 1e-6, 1e-5),
    ("zero-out", 0.001, 0.8, 100000, 1e-5, 2e-5),
    ("zero-out", 0.001, 1.0, 1000000, 1e-6, 1e-5),
    ("zero-out", 0.001, 0.4, 1000, 1e-6, 1e-4),
    ("zero-out", 0.001, 2.0, 10000, 1e-8, 5e-6),
    ("zero-out", 0.0001, 0.5, 100000, 1e-7, 2e-5),
    ("zero-out", 0.0001, 0.7, 10, 1e-12, 1e-4),
    ("zero-out", 0.1, 1.0, 1000, 1e-5, 1e-3),
    ("zero-out", 0.1, 0.3, 10, 1e-5, 1e-3),
    ("zero-out", 0.1, 2.0, 2, 1e-5, 1e-4),
    ("zero-out", 0.1, 10.0, 1000, 1e-10, 1e-4),
    ("zero-out", 0.1, 50.0, 100000, 1e-12, 5e-5),
    ("zero-out", 0.1, 3.0, 10000, 1e-3, 1e-3),
    ("zero-out", 0.5, 1.0, 100, 1e-6, 1e-3),
    ("zero-out", 0.5, 5.0, 1000, 1e-12, 1e-3),
    ("zero-out", 0.9, 2.0, 50, 1e-6, 1e-3),
    ("zero-out", 1.0, 0.3, 1, 1e-5, 1e-3),
    ("zero-out", 1.0, 1.0, 1, 1e-12, 1e-4),
    ("zero-out", 1.0, 10.0, 100, 1e-5, 1e-4),
    ("zero-out", 1.0, 50.0, 100000, 1e-6, 1e-3),
    ("zero-out", 500 / 29700, 1.470, 5000, 1e-5, 1e-4),
    ("zero-out", 500 / 29700, 2.490, 5000, 1e-5, 1e-4),
    ("zero-out", 0.01, 1.0, 1, 1e-9, 1e-4),
    ("zero-out", 0.3, 0.5, 1, 1e-3, 1e-4),
    ("replace", 0.01, 1.0, 1, 1e-9, 1e-4),
    ("replace", 0.01, 1.0, 10000, 1e-5, 1e-4),
    ("replace", 0.01, 0.5, 1000, 1e-9, 1e-4),
    ("replace", 0.01, 5.0, 100000, 1e-6, 5e-5),
    ("replace", 0.001, 1.0, 100000, 1e-6, 2e-5),
    ("replace", 0.0001, 0.5, 100000, 1e-7, 2e-5),
    ("replace", 0.1, 2.0, 2, 1e-5, 1e-4),
    ("replace", 0.1, 1.0, 1000, 1e-5, 1e-3),
    ("replace", 0.1, 50.0, 100000, 1e-12, 1e-4),
    ("replace", 0.5, 5.0, 1000, 1e-3, 1e-3),
    ("replace", 1.0, 10.0, 100, 1e-5, 1e-4),
    ("replace", 0.9, 0.3, 10, 1e-5, 1e-3),
    ("replace", 500 / 29700, 1.470, 5000, 1e-5, 1e-4),
]


def dp_epsilon(relation, rate, noise, steps, delta, discretization):
    accountant = pld_privacy_accountant.PLDAccountant(RELATION[relation], discretization)
    event = dp.GaussianDpEvent(noise)
    accountant.compose(event if rate == 1.0 and relation == "zero-out" else dp.PoissonSampledDpEvent(rate, event), steps)
    return accountant.get_epsilon(delta)


def prv_interval(rate, noise, steps, delta):
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import GaussianMechanism, PoissonSubsampledGaussianMechanism

    prv = GaussianMechanism(noise) if rate == 1.0 else PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=noise)
    accountant = PRVAccountant(prvs=[prv], max_self_compositions=[steps], eps_error=0.01, delta_error=delta / 1000)
    low, _, high = accountant.compute_epsilon(delta=delta, num_self_compositions=[steps])
    return [float(low), float(high)]


def row(setting):
    relation, rate, noise, steps, delta, discretization = setting
    epsilon = dp_epsilon(relation, rate, noise, steps, delta, discretization)
    for _ in range(6):
        finer = dp_epsilon(relation, rate, noise, steps, delta, discretization / 2)
        discretization, done, epsilon = discretization / 2, abs(finer - epsilon) <= 1e-3 * finer, finer
        if done:
            break
    prv = None
    if relation == "zero-out":
        try:
            prv = prv_interval(rate, noise, steps, delta)
        except Exception as error:
            print(setting, repr(error)[:120], file=sys.stderr)
    return {"change": relation, "rate": rate, "noise_multiplier": noise, "steps": steps, "delta": delta, "discretization": discretization, "dp_accounting": epsilon, "prv_accountant": prv}


def answer(setting, pipe):
    pipe.send(row(setting))


if __name__ == "__main__":
    rows = []
    for setting in SETTINGS:
        receiver, sender = multiprocessing.Pipe(False)
        process = multiprocessing.Process(target=answer, args=(setting, sender))
        process.start()
        if receiver.poll(150):
            try:
                rows.append(receiver.recv())
                print(rows[-1], file=sys.stderr, flush=True)
            except EOFError:
                print("died", setting, file=sys.stderr, flush=True)
        else:
            print("too slow", setting, file=sys.stderr, flush=True)
        process.kill()
    made_with = __doc__.split("Made with ")[1].split(".\n")[0].replace(" and prv", ", prv").replace(" on Python", ", Python")
    print('{"made_with": ' + json.dumps(made_with) + ',\n"rows": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]}")
