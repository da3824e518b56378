"""Golden values for src/exact.rs: floor(e^-q * 2^192) for q = numerator / 2^fraction_bits.

Run once: python3 golden/exponentials.py > golden/exponentials.csv  (Python 3.11, mpmath 1.3.0)
"""
import mpmath

mpmath.mp.dps = 400
print("# numerator,fraction_bits,floor(exp(-numerator/2^fraction_bits)*2^192); mpmath", mpmath.__version__)
cases = [(1, 0), (8, 0), (1, 1), (3, 2), (1, 30), (1, 63), (255 * 255, 13), (25 * 25 * 8, 8)]
cases += [(2**64 - 1, 64), (2**64 - 1, 60), (2**63 + 12345, 58), (98765432123456789, 52), (100, 0), (40, 0)]
cases += [(i * i, 13) for i in range(1, 257, 5)] + [(i, 5) for i in range(1, 257, 5)]
for numerator, bits in cases:
    value = mpmath.exp(-mpmath.mpf(numerator) / mpmath.mpf(2) ** bits) * mpmath.mpf(2) ** 192
    print(f"{numerator},{bits},{int(mpmath.floor(value))}")
