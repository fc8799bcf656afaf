"""Trains ResNet50V2 on CIFAR-10, data-parallel on the first n GPUs of one node.

    python ResNet50.py --epochs 5 --batch_size 4096 --n_gpus 2

The three places that matter are marked 1, 2, 3. To train another network, change its name at 1:
the log takes the name from the model itself. `python ResNet50.py --help` lists the other options.
"""

import tensorflow as tf

import resnet_lab as lab  # options, checks, timing and log lines; it also finds cifar-utils
from cifar import load_cifar

# 1. The network. The lab's other two: ResNet101V2, ResNet152V2.
NETWORK = tf.keras.applications.resnet_v2.ResNet50V2


def train(args, network=NETWORK):
    train_ds, test_ds = load_cifar(args.batch_size, args.data, images=args.images, image_size=args.image_size)

    # 2. The strategy: one replica of the model on each device.
    strategy = tf.distribute.MirroredStrategy(devices=args.devices)

    # Variables made inside the scope are mirrored: every device has its copy, all copies stay equal.
    with strategy.scope():
        model = network(
            include_top=True, weights=None, input_shape=(args.image_size, args.image_size, 3), classes=10
        )
        # The batch is n times larger, so the learning rate is too: 0.01 x n_gpus by default.
        opt = tf.keras.optimizers.SGD(args.learning_rate)
        model.compile(loss="sparse_categorical_crossentropy", optimizer=opt, metrics=["accuracy"])

    # 3. The training: each step, every replica computes its share of the global batch.
    batches = lab.batches(args, train_ds)
    model.fit(batches, epochs=args.epochs, verbose=2, callbacks=[lab.RunLog(args, train_ds)])


if __name__ == "__main__":
    lab.main(train, parallel=True)
