"""Trains ResNet152V2 the way ResNet50.py trains ResNet50V2: only the network differs.

python ResNet152.py --epochs 5 --batch_size 2048 --n_gpus 2
"""

import tensorflow as tf

import ResNet50
import resnet_lab as lab


def train(args):
    ResNet50.train(args, network=tf.keras.applications.resnet_v2.ResNet152V2)


if __name__ == "__main__":
    lab.main(train, parallel=True)
