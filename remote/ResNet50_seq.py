"""Trains ResNet50V2 on CIFAR-10 on one device: a GPU if there is one, else the CPU.

    python ResNet50_seq.py --epochs 2 --batch_size 256

To train another network, change its name below: the log takes the name from the model itself.
`python ResNet50_seq.py --help` lists the other options.
"""

import tensorflow as tf

import resnet_lab as lab  # options, checks, timing and log lines; it also finds cifar-utils
from cifar import load_cifar

# The network. The lab's other two: ResNet101V2, ResNet152V2.
NETWORK = tf.keras.applications.resnet_v2.ResNet50V2


def train(args, network=NETWORK):
    train_ds, test_ds = load_cifar(args.batch_size, args.data, images=args.images, image_size=args.image_size)

    model = network(
        include_top=True, weights=None, input_shape=(args.image_size, args.image_size, 3), classes=10
    )
    opt = tf.keras.optimizers.SGD(args.learning_rate)  # 0.01 by default
    model.compile(loss="sparse_categorical_crossentropy", optimizer=opt, metrics=["accuracy"])

    batches = lab.batches(args, train_ds)
    model.fit(batches, epochs=args.epochs, verbose=2, callbacks=[lab.RunLog(args, train_ds)])


if __name__ == "__main__":
    lab.main(train, parallel=False)
