# sparsmith without a compiler: the installed tree, NVRTC, which `tune` needs, and cuBLASLt, which runs weights that
# stay dense. The driver comes from the host, through the NVIDIA Container Toolkit.
#
#   docker build -t sparsmith .
#   docker run --rm --gpus all -v "$PWD:/work" sparsmith tune pruned-model -o tuned.safetensors
FROM debian:12 AS build
WORKDIR /source
COPY . .
RUN SPARSMITH_GPU_LIBRARIES=1 cmake/setup.sh build \
  && cmake --preset release \
  && cmake --build --preset release \
  && cmake --install build/release --prefix /opt/sparsmith --strip \
  && cp -P .deps/cuda/lib/libnvrtc* .deps/cuda/lib/libcublasLt* /opt/sparsmith/lib/

FROM debian:12-slim
RUN useradd --uid 1000 --create-home sparsmith && install -d -o 1000 -g 1000 /work /home/sparsmith/.cache
COPY --from=build /opt/sparsmith /opt/sparsmith
ENV PATH=/opt/sparsmith/bin:$PATH NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000:1000
WORKDIR /work
ENTRYPOINT ["sparsmith"]
