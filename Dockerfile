# The version is pinned to its last digit. Raise it here alone; test/deploy runs the image's files on this very Node.
FROM node:26.10.0-trixie-slim AS base
WORKDIR /app

FROM base AS build
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json ./
COPY scripts ./scripts
COPY src ./src
# The packages are in the program's bundle, and sbom.cdx.json names them.
RUN npm run build:image && npm run sbom && npm run licences

FROM base
LABEL org.opencontainers.image.title="quotegate" \
      org.opencontainers.image.description="The proxy between your services, a swap API and a payments API" \
      org.opencontainers.image.licenses="MIT"
# HOST is also where the operations listener is, unless ADMIN_HOST says otherwise.
ENV NODE_ENV=production HOST=0.0.0.0
COPY --from=build /app/program/dist ./dist
COPY --from=build /app/sbom.cdx.json /app/third-party-licences.txt ./
COPY package.json LICENSE ./
# Served by the operations listener.
COPY docs/openapi.json docs/runbook.md ./docs/
# For STATE_DIRECTORY: a fresh volume gets the owner and the mode of the folder that it is mounted on.
RUN install -d -o 1000 -g 1000 -m 0700 /var/lib/quotegate
# The user "node" by its number, so that Kubernetes can tell that it is not root.
USER 1000:1000
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 CMD ["node", "dist/main.js", "--check-health"]
# In exec form, so that the signals reach it; it needs no init: it starts no other process. Without the percentage, which wins
# over NODE_OPTIONS, V8 may fill 259 MiB with objects in a container of 128.
ENTRYPOINT ["node", "--enable-source-maps", "--max-old-space-size-percentage=50", "dist/main.js"]
