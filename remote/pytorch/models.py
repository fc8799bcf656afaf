"""The networks: ResNet (He et al. 2015), ViT (Dosovitskiy et al. 2020), the course's MLP on grey pixels.

Written out here so that only PyTorch is needed. Layers and parameter counts are those of torchvision
(ResNet with the stride in the 3x3 convolution; ViT B, L, H) and of DeiT (ViT Ti, S): with 1000 classes
25,557,032, 44,549,160 and 60,192,808; 5,717,416, 22,050,664, 86,567,656, 304,326,632 and 632,045,800.
"""

import torch
from torch import nn
from torch.nn import functional

RESNETS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3), "resnet152": (3, 8, 36, 3)}
# patch, depth, heads, width; the MLP of a block is four times as wide
VITS = {
    "vit_ti_16": (16, 12, 3, 192),
    "vit_s_16": (16, 12, 6, 384),
    "vit_b_16": (16, 12, 12, 768),
    "vit_l_16": (16, 24, 16, 1024),
    "vit_h_14": (14, 32, 16, 1280),
}
MLP_WIDTHS = (8192, 4096, 2048, 1024, 512, 256, 128, 64)  # 455,807,624 parameters at 224 pixels, 200 classes
NAMES = ("custom", "vit") + tuple(RESNETS) + tuple(VITS)


def build(name, classes, resolution, widths=None):
    """The network of this name with random initial weights. "vit" is ViT-H/14, as in the course's script.

    widths  of the hidden layers of "custom" (MLP_WIDTHS when None)

    Raises ValueError if the resolution does not fit the network.
    """
    if name == "custom":
        return MLP(classes, resolution, widths or MLP_WIDTHS)
    if name in RESNETS:
        return ResNet(RESNETS[name], classes)
    patch, depth, heads, width = VITS["vit_h_14" if name == "vit" else name]
    if resolution % patch:
        raise ValueError(
            f"{name} cuts images into squares of {patch} pixels, and {resolution} is not a multiple."
        )
    return ViT(classes, resolution, patch, depth, heads, width)


def count_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


class MLP(nn.Module):
    """Fully connected layers on the grey pixels of an image, ReLU between them."""

    def __init__(self, classes, resolution, widths):
        super().__init__()
        sizes = [resolution * resolution, *widths, classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, images):
        values = images.mean(dim=1).flatten(1)
        for layer in self.layers[:-1]:
            values = functional.relu(layer(values))
        return self.layers[-1](values)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolution with a shortcut; it has 4 x `width` output channels."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.shortcut = nn.Identity()
        if stride > 1 or channels != 4 * width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, images):
        values = functional.relu(self.bn1(self.conv1(images)))
        values = functional.relu(self.bn2(self.conv2(values)))
        return functional.relu(self.bn3(self.conv3(values)) + self.shortcut(images))


class ResNet(nn.Module):
    """A stem, four stages of bottlenecks, the mean over the image, one linear layer."""

    def __init__(self, blocks, classes):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        stages, channels = [], 64
        for stage, count in enumerate(blocks):
            width = 64 * 2**stage
            for block in range(count):
                stages.append(Bottleneck(channels, width, 2 if stage and not block else 1))
                channels = 4 * width
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images):
        return self.head(self.stages(self.stem(images)).mean(dim=(2, 3)))


class Block(nn.Module):
    """A transformer layer: attention and an MLP, each after a LayerNorm and with a shortcut."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, values):
        batch, tokens, width = values.shape
        split = self.qkv(self.norm1(values)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        values = values + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return values + self.mlp(self.norm2(values))


class ViT(nn.Module):
    """Patches as tokens after a class token, transformer layers, and a linear layer on the class token."""

    def __init__(self, classes, resolution, patch, depth, heads, width):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.empty(1, (resolution // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)
        nn.init.normal_(self.positions, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, images):
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], dim=1) + self.positions
        return self.head(self.norm(self.blocks(tokens))[:, 0])
