import { IncomingMessage } from 'node:http'
import express, { type Express } from 'express'
import { TrafficResponse } from '../http/whole-response.ts'

export interface MessageClasses {
  IncomingMessage: typeof IncomingMessage
  ServerResponse: typeof TrafficResponse
}

// The methods that Express gives a response stay there, below those of TrafficResponse.
Object.setPrototypeOf(TrafficResponse.prototype, express.response)

/** Express makes such an object for each response that has none. Nothing here reads it. */
const noLocals = Object.freeze(Object.create(null))

/**
 * Express sets the prototype of each request and response to the app's, which is nearly all of its cost: V8 then drops
 * what it has learned about the object. Messages of these classes have those prototypes from the
 * start, so that Express changes nothing.
 */
export function messageClassesOf(app: Express): MessageClasses {
  class AppRequest extends IncomingMessage {}
  Object.setPrototypeOf(AppRequest.prototype, express.request)
  class AppResponse extends TrafficResponse {}
  const own = (value: unknown) => ({ value, writable: true, configurable: true })
  Object.defineProperty(AppRequest.prototype, 'app', own(app))
  Object.defineProperties(AppResponse.prototype, { app: own(app), locals: own(noLocals) })
  Object.assign(app, { request: AppRequest.prototype, response: AppResponse.prototype })
  return { IncomingMessage: AppRequest, ServerResponse: AppResponse }
}
