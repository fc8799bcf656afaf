"""Trains ResNet152V2 the way ResNet50_seq.py trains ResNet50V2: only the network differs.

python ResNet152_seq.py --epochs 2 --batch_size 128
"""

import tensorflow as tf

import ResNet50_seq
import resnet_lab as lab


def train(args):
    ResNet50_seq.train(args, network=tf.keras.applications.resnet_v2.ResNet152V2)


if __name__ == "__main__":
    lab.main(train, parallel=False)
