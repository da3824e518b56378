"""Golden optima of small problems, to 30 digits, printed as JSON: python3 optima.py > optima.json

The data is a formula (`table` below; the Rust test repeats it). Smooth losses: Newton's method in mpmath. Kinked losses: dual
coordinate ascent finds which rows sit on their kink, mpmath solves the optimality conditions for them, and every
condition is then checked in mpmath, so the result is the optimum and not merely the end of an iteration. Where
scikit-learn solves the same problem its optimum is compared and the distance is reported.
"""

import json
import sys

import numpy as np
from mpmath import exp, lu_solve, matrix, mp, mpf, sqrt

mp.dps = 40
ROWS, WIDTH = 60, 4
REGULARIZATION = mpf(1) / 10
ANCHOR = [mpf(1) / 8, -mpf(1) / 4, mpf(0), mpf(3) / 8]


def table():
    """Lattice features, a real label in [-1, 1], a sign, a class, a count and a weight for every row."""
    rows = []
    for i in range(1, ROWS + 1):
        q = [(7919 * i * (j + 2) + 104729 * i * i * (j + 1)) % 32769 - 16384 for j in range(WIDTH)]
        real = ((31337 * i * i + 271 * i) % 257 - 128) / 128
        sign = 1 if 2 * q[0] + q[1] + 16384 * real > 0 else -1
        rows.append(dict(q=q, real=real, sign=sign, cls=(i + (q[0] > 0) + 2 * (q[1] > 0)) % 3, count=7 * i % 5,
                         weight=1 + (i % 3) / 2))
    return rows


TABLE = table()
X = [[mpf(q) / 16384 for q in row["q"]] for row in TABLE]
SHARES = [mpf(row["weight"]) / ROWS for row in TABLE]


def newton(derivatives, outputs=1):
    """Minimises by Newton's method; `derivatives(row, scores)` gives the slopes and the curvature matrix of one row."""
    size = WIDTH * outputs
    anchor = ANCHOR * outputs
    w = [mpf(0)] * size
    for iteration in range(120):
        g = [REGULARIZATION * (w[a] - anchor[a]) for a in range(size)]
        h = matrix(size, size)
        for a in range(size):
            h[a, a] = REGULARIZATION
        for row in range(ROWS):
            x, share = X[row], SHARES[row]
            scores = [sum(w[k * WIDTH + j] * x[j] for j in range(WIDTH)) for k in range(outputs)]
            slopes, curvature = derivatives(TABLE[row], scores)
            for k in range(outputs):
                for j in range(WIDTH):
                    g[k * WIDTH + j] += share * slopes[k] * x[j]
                    for m in range(outputs):
                        for l in range(WIDTH):
                            h[k * WIDTH + j, m * WIDTH + l] += share * curvature[k][m] * x[j] * x[l]
        step = lu_solve(h, matrix(g))
        # piecewise quadratic losses may cycle: half steps settle on a piece first
        length = mpf(1) / 2 if iteration < 40 else mpf(1)
        w = [w[a] - length * step[a] for a in range(size)]
        if max(abs(s) for s in step) < mpf(10) ** -32:
            return w
    raise RuntimeError("Newton's method did not converge")


def logistic(row, z):
    p = 1 / (1 + exp(-z[0]))
    return [p - (row["sign"] > 0)], [[p * (1 - p)]]


def softmax(row, z):
    powers = [exp(s) for s in z]
    p = [power / sum(powers) for power in powers]
    slopes = [p[k] - (row["cls"] == k) for k in range(3)]
    return slopes, [[p[k] * ((k == m) - p[m]) for m in range(3)] for k in range(3)]


def squared(row, z):
    return [z[0] - mpf(row["real"])], [[mpf(1)]]


def poisson(row, z):
    if abs(z[0]) > 3:
        raise RuntimeError("beyond the bound: choose other data")
    return [exp(z[0]) - row["count"]], [[exp(z[0])]]


def huber(row, z):
    r, k = z[0] - mpf(row["real"]), mpf(1) / 2
    return [min(max(r, -k), k)], [[mpf(abs(r) <= k)]]


def pseudo_huber(row, z):
    r, k = z[0] - mpf(row["real"]), mpf(1) / 2
    root = sqrt(1 + (r / k) ** 2)
    return [r / root], [[1 / root**3]]


def smoothed_hinge(row, z):
    y, s = row["sign"], mpf(1) / 2
    p = (1 - y * z[0]) / s
    return [-y * min(max(p, 0), 1)], [[mpf(0 < p < 1) / s]]


def kinked(lines):
    """The optimum for a loss max(a (z - k), b (z - k)); `lines(row)` gives (k, a, b)."""
    kinks = [lines(row) for row in TABLE]
    x = np.array([[float(v) for v in row] for row in X])
    share = np.array([float(s) for s in SHARES])
    lam, anchor = float(REGULARIZATION), np.array([float(a) for a in ANCHOR])
    low, high = np.array([float(k[1]) for k in kinks]), np.array([float(k[2]) for k in kinks])
    slope = 0.5 * (low + high)
    w = anchor - x.T @ (share * slope) / lam
    for _ in range(20000):
        for i in range(ROWS):
            # maximise the dual in one slope: z - k = 0 or an end of the range
            free = slope[i] + (x[i] @ w - float(kinks[i][0])) * lam / (share[i] * (x[i] @ x[i]))
            new = min(max(free, low[i]), high[i])
            w -= x[i] * share[i] * (new - slope[i]) / lam
            slope[i] = new
    on_kink = [i for i in range(ROWS) if low[i] + 1e-9 < slope[i] < high[i] - 1e-9]
    ends = [kinks[i][1] if slope[i] <= low[i] + 1e-9 else kinks[i][2] for i in range(ROWS)]
    # lam (w - w0) + sum_others share a x + sum_on share a x = 0 and x_i w = k_i
    size = WIDTH + len(on_kink)
    system, right = matrix(size, size), matrix(size, 1)
    for j in range(WIDTH):
        system[j, j] = REGULARIZATION
        right[j] = REGULARIZATION * ANCHOR[j]
        right[j] -= sum(SHARES[i] * ends[i] * X[i][j] for i in range(ROWS) if i not in on_kink)
        for index, i in enumerate(on_kink):
            system[j, WIDTH + index] = SHARES[i] * X[i][j]
            system[WIDTH + index, j] = X[i][j]
    for index, i in enumerate(on_kink):
        right[WIDTH + index] = kinks[i][0]
    solution = lu_solve(system, right)
    w = [solution[j] for j in range(WIDTH)]
    for i in range(ROWS):
        distance = sum(w[j] * X[i][j] for j in range(WIDTH)) - kinks[i][0]
        if i in on_kink:
            assert abs(distance) < mpf(10) ** -30
            assert kinks[i][1] < solution[WIDTH + on_kink.index(i)] < kinks[i][2]
        else:
            assert ends[i] == (kinks[i][2] if distance > 0 else kinks[i][1]) and abs(distance) > mpf(10) ** -12
    assert on_kink, "no row on its kink: the example shows nothing"
    return w


def hinge(row):
    y = row["sign"]
    return (mpf(y), mpf(-1), mpf(0)) if y > 0 else (mpf(y), mpf(0), mpf(1))


def absolute(row):
    return mpf(row["real"]), mpf(-1), mpf(1)


def quantile(row):
    return mpf(row["real"]), -mpf(1) / 4, mpf(3) / 4


def mean():
    total = sum(SHARES) + REGULARIZATION
    return [(sum(SHARES[i] * X[i][j] for i in range(ROWS)) + REGULARIZATION * ANCHOR[j]) / total for j in range(WIDTH)]


def compare_with_scikit_learn():
    """Largest distance to scikit-learn's optima, for the losses it has, with the anchor at zero."""
    from sklearn import __version__
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
    from sklearn.svm import LinearSVC, LinearSVR

    global ANCHOR
    kept, ANCHOR = ANCHOR, [mpf(0)] * WIDTH
    x = np.array([[float(v) for v in row] for row in X])
    weight = np.array([row["weight"] for row in TABLE])
    column = lambda name: np.array([row[name] for row in TABLE], dtype=float)
    lam = float(REGULARIZATION)
    # scikit-learn: sum of weighted losses times C, plus ||w||^2 / 2
    strength = 1 / (ROWS * lam)
    models = {
        "logistic": (newton(logistic), LogisticRegression(C=strength, fit_intercept=False, tol=1e-14,
                     solver="newton-cholesky", max_iter=1000).fit(x, column("sign") > 0, weight).coef_[0]),
        "softmax": (newton(softmax, 3), LogisticRegression(C=strength, fit_intercept=False, tol=1e-14,
                    solver="newton-cg", max_iter=10000).fit(x, column("cls"), weight).coef_.ravel()),
        "squared": (newton(squared), Ridge(alpha=1 / strength, fit_intercept=False, solver="cholesky")
                    .fit(x, column("real"), weight).coef_),
        "poisson": (newton(poisson), PoissonRegressor(alpha=lam * ROWS / weight.sum(), fit_intercept=False, tol=1e-14,
                    solver="newton-cholesky", max_iter=1000).fit(x, column("count"), weight).coef_),
        "hinge": (kinked(hinge), LinearSVC(C=strength, loss="hinge", fit_intercept=False, tol=1e-13,
                  max_iter=10_000_000, random_state=0).fit(x, column("sign"), weight).coef_[0]),
        "absolute": (kinked(absolute), LinearSVR(C=strength, epsilon=0, fit_intercept=False, tol=1e-13,
                     max_iter=10_000_000, random_state=0).fit(x, column("real"), weight).coef_),
    }
    ANCHOR = kept
    distances = {}
    for name, (ours, theirs) in models.items():
        distances[name] = float(np.sqrt(sum((float(a) - b) ** 2 for a, b in zip(ours, theirs))))
    return __version__, distances


def main():
    optima = {
        "logistic": newton(logistic), "softmax": newton(softmax, 3), "squared": newton(squared),
        "poisson": newton(poisson), "huber": newton(huber), "pseudo-huber": newton(pseudo_huber),
        "smoothed-hinge": newton(smoothed_hinge), "hinge": kinked(hinge), "absolute": kinked(absolute),
        "quantile": kinked(quantile), "mean": mean(),
    }
    version, distances = compare_with_scikit_learn()
    print(f"scikit-learn {version}: distances {distances}", file=sys.stderr)
    json.dump({
        "optima": {name: [float(w) for w in ws] for name, ws in optima.items()},
        "distance_to_scikit_learn": {"version": version, **distances},
    }, sys.stdout, indent=1)
    print()


main()
