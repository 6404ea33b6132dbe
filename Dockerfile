# The version is pinned to its last digit. Raise it here alone; test/deploy runs the image's files on this very Node.
FROM node:24.21.0-trixie-slim AS base
WORKDIR /app

FROM base AS build
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts ./scripts
COPY src ./src
RUN npm run build

FROM base AS dependencies
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --no-audit --no-fund

FROM base
LABEL org.opencontainers.image.title="quotegate" \
      org.opencontainers.image.description="The proxy between your services, a swap API and a payments API" \
      org.opencontainers.image.licenses="MIT"
# HOST is also where the operations listener is, unless ADMIN_HOST says otherwise.
ENV NODE_ENV=production HOST=0.0.0.0
COPY --from=dependencies /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY package.json LICENSE ./
# Served by the operations listener.
COPY docs/openapi.json ./docs/
# The user "node" by its number, so that Kubernetes can tell that it is not root.
USER 1000:1000
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
# To connect to 0.0.0.0 or :: is to connect to oneself.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 CMD ["node", "--eval", "\
  const { ADMIN_HOST, HOST, ADMIN_PORT } = process.env; \
  const at = { host: ADMIN_HOST || HOST, port: ADMIN_PORT || 8081, path: '/healthz', timeout: 2500 }; \
  require('node:http').get(at, ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1)) \
    .on('timeout', () => process.exit(1)).on('error', () => process.exit(1))"]
# In exec form, so that the signals reach it; it needs no init: it starts no other process.
ENTRYPOINT ["node", "--enable-source-maps", "dist/main.js"]
