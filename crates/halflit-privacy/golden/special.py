"""Golden values of the special functions, made once: python3 golden/special.py > golden/special.json

Made with mpmath 1.3.0 at 60 digits on Python 3.11.7. Arguments are doubles (their exact binary values are used); values are written with 25 digits.
"""
import json
import mpmath as mp

mp.mp.dps = 60


def digits(value):
    return mp.nstr(value, 25, min_fixed=0, max_fixed=0)


def tail(x):
    """Phi(-x)."""
    return mp.erfc(mp.mpf(x) / mp.sqrt(2)) / 2


def density(x):
    return mp.exp(-mp.mpf(x) ** 2 / 2) / mp.sqrt(2 * mp.pi)


def mills(x):
    return tail(x) / density(x)


points = [-37.0, -20.5, -10.0, -5.0, -3.3, -1.0, -0.1, 0.0, 1e-9, 0.3, 1.0, 2.5, 3.999, 4.0, 4.1, 6.0, 7.9, 8.0, 11.7, 20.0, 37.5, 40.0, 100.0, 1e4]
out = {"log_normal_cdf": [], "normal_density": [], "mills_ratio": [], "mills_difference": [], "normal_cdf_difference": [], "normal_quantile": [], "normal_quantile_of_log": [], "log_gamma": [], "incomplete_beta": [], "inverse_incomplete_beta": []}
for x in points:
    out["log_normal_cdf"].append([-x, digits(mp.log(tail(x)) if x > 0 else mp.log1p(-tail(-x)))])
    if x <= 37.5:
        out["normal_density"].append([x, digits(density(x))])
    if x > -30:
        out["mills_ratio"].append([x, digits(mills(x))])
for a in [-6.0, -2.0, -0.5, 0.0, 0.7, 3.0, 3.99, 4.5, 8.0, 15.0, 39.0]:
    for width in [1e-9, 1e-4, 0.03, 0.3, 1.0, 5.0]:
        b = a + width
        out["mills_difference"].append([a, b, digits(mills(a) - mills(b))])
        if b < 37:
            out["normal_cdf_difference"].append([a, b, digits(tail(a) - tail(b))])


def quantile_of_log(log_p):
    x = -mp.sqrt(-2 * log_p)
    return mp.findroot(lambda t: mp.log(tail(-t)) - log_p, x)


for p in [1e-300, 1e-100, 1e-20, 1e-12, 1e-5, 0.01, 0.1, 0.3, 0.49999, 0.7, 0.9, 0.999]:
    log_p = mp.log(mp.mpf(p)) if p <= 0.5 else mp.log(1 - mp.mpf(p))
    out["normal_quantile"].append([p, digits(quantile_of_log(log_p) * (1 if p <= 0.5 else -1))])
for log_p in [-800.0, -5000.0, -30.0, -2.0, -1.0]:
    out["normal_quantile_of_log"].append([log_p, digits(quantile_of_log(mp.mpf(log_p)))])
for x in [1e-8, 0.1, 0.5, 0.999, 1.0001, 1.5, 1.9999, 2.0001, 3.0, 7.25, 50.5, 1e3, 499999.5, 1e6, 1e10]:
    out["log_gamma"].append([x, digits(mp.loggamma(mp.mpf(x)))])


def beta_lower(a, b, x):
    """I_x(a, b) by its hypergeometric series, summed on the side where it converges fast."""
    a, b, x = mp.mpf(a), mp.mpf(b), mp.mpf(x)
    if a > 5 * b or (b <= 5 * a and x > (a + 1) / (a + b + 2)):
        return 1 - beta_series(b, a, 1 - x)
    return beta_series(a, b, x)


def beta_series(a, b, x):
    term = mp.exp(a * mp.log(x) + b * mp.log1p(-x) + mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)) / a
    total, k = term, 0
    while term > total * mp.mpf(10) ** -45:
        term *= (a + b + k) / (a + 1 + k) * x
        total += term
        k += 1
    return total


cases = [(0.5, 0.5, 0.2), (0.5, 3.0, 0.9), (2.0, 3.0, 0.4), (10.0, 2.5, 0.5), (49.5, 0.5, 0.99), (499.5, 499.5, 0.47), (499.5, 0.5, 0.999), (4999.5, 4999.5, 0.51),
         (49999.5, 0.5, 0.9999), (49999.5, 49999.5, 0.497), (499999.5, 499999.5, 0.5001), (499999.5, 499999.5, 0.498), (1e6, 1e6, 0.5), (1e6, 1e6, 0.4975), (1e6, 3.0, 0.999996), (1e6, 1e3, 0.9989),
         # far below the mean: thin caps in few dimensions
         (0.5, 0.5, 2.0**-53), (0.5, 0.5, 1e-9), (2.5, 2.5, 1e-14), (3.0, 3.0, 2.0**-53), (3.0, 3.0, 1e-11), (3.0, 3.0, 1e-3), (49.5, 49.5, 1e-4), (49.5, 49.5, 0.02), (499.5, 499.5, 0.2)]
for a, b, x in cases:
    value = beta_lower(a, b, x)
    out["incomplete_beta"].append([a, b, x, digits(value)])
    p = float(value)
    if 1e-290 < p < 0.999:
        # Newton from the double x: its square error is far below 25 digits after two steps.
        t = mp.mpf(x)
        for _ in range(3):
            slope = mp.exp((a - 1) * mp.log(t) + (b - 1) * mp.log1p(-t) + mp.loggamma(mp.mpf(a) + b) - mp.loggamma(a) - mp.loggamma(b))
            t -= (beta_lower(a, b, t) - mp.mpf(p)) / slope
        out["inverse_incomplete_beta"].append([a, b, p, digits(t)])
print("{" + ",\n".join(f'"{name}": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]" for name, rows in out.items()) + "}")
