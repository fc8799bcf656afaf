"""Learning rates over a training: the policies of the learning-rate study, for any number of epochs.

The study (ResNet-50 on ImageNet, 90 epochs, momentum 0.9, weight decay 1e-4) starts from a rate of 0.1 for a
global batch of 256 images. It divides the rate by 10 after epochs 30, 60 and 80: here, after these fractions.

    constant   the rate as given, whatever the batch: what the course's train_ddp.py does
    naive      the rate as given, divided by 10 after one and two thirds of the epochs
    linear     the rate x global batch / 256, divided by 10 after 1/3, 2/3 and 8/9 of the epochs
    stepping   linear, but in the first w epochs 1/(w+1), 2/(w+1), ... of it
    gradual    linear, but in the first w epochs it rises in equal steps from the rate of a single GPU

Goyal et al. 2017 (arXiv 1706.02677) raise the rate at every step of the first five epochs, the study at every
epoch.
"""

from fractions import Fraction

POLICIES = ("constant", "naive", "linear", "stepping", "gradual")
REFERENCE_BATCH = 256
THIRDS = (Fraction(1, 3), Fraction(2, 3))
DROPS = {"constant": (), "naive": THIRDS}
OTHER_DROPS = THIRDS + (Fraction(8, 9),)


def learning_rate(policy, epoch, epochs, rate, batch, world, warmup=0):
    """The learning rate during an epoch.

    epoch   counted from 0
    epochs  of the whole training
    rate    the base rate: for 256 images, or for any batch (constant, naive)
    batch   images per rank and step; the global batch is that of `world` ranks
    warmup  epochs of warm-up (stepping, gradual)
    """
    drops = DROPS.get(policy, OTHER_DROPS)
    fallen = sum(epoch >= part * epochs for part in drops)
    if policy in ("constant", "naive"):
        return rate / 10**fallen
    final = rate * batch * world / REFERENCE_BATCH
    if policy == "stepping" and epoch < warmup:
        return final * (epoch + 1) / (warmup + 1)
    if policy == "gradual" and epoch < warmup:
        alone = rate * batch / REFERENCE_BATCH
        return alone + epoch * (final - alone) / warmup
    return final / 10**fallen
