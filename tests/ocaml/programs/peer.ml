(* peer.exe ACT URL: servers and clients of generated interfaces, blocking and with Lwt. *)

module All = Every_every_v1.Types.All
module Cases = Every_every_v1.Types.List
module Calls = Every_every_v1.Calls

let say form = Printf.ksprintf (fun line -> print_string (line ^ "\n"); flush stdout) form

(* --- servers *)

module Every_server (Rpc : Sapwood.S.RPC) = struct
  include Every_every_v1.Every_skeleton (Rpc)

  let echo { Calls.Echo.In.from; lambda } : Calls.Echo.response Rpc.io =
    match from.All.str with
    | "gone" -> Rpc.return (Error (`Gone 7L))
    | "wrong" -> Rpc.return (Error (`Wrong from))
    | "undeclared" -> Rpc.fail (Failure "on purpose")
    | "not finite" -> Rpc.return (Ok { Calls.Echo.Out.all = { from with All.float = Float.nan }; maybe = lambda })
    | _ -> Rpc.return (Ok { Calls.Echo.Out.all = from; maybe = lambda })

  let nothing () : Calls.Nothing.response Rpc.io = Rpc.return (Error `Closed)
end

module Second_server (Rpc : Sapwood.S.RPC) = struct
  let nothing () : Every_every_v2.Calls.Nothing.response Rpc.io =
    Rpc.return (Ok { Every_every_v2.Calls.Nothing.Out.said = "second" })

  let version { Every_every_v2.Calls.Version.In.version = said } : Every_every_v2.Calls.Version.response Rpc.io =
    Rpc.return (Ok { Every_every_v2.Calls.Version.Out.said })
end

module Serving (Rpc : Sapwood.S.RPC) = struct
  module First = Every_every_v1.Every_server_dispatcher (Rpc) (Every_server (Rpc))
  module Second = Every_every_v2.Every_server_dispatcher (Rpc) (Second_server (Rpc))
  module Test = Every_every_v1.Every_server_dispatcher (Rpc) (Every_every_v1.Every_test (Rpc))
end

module Ready = struct
  include Chain_stock_v1.Stock_skeleton (Sapwood_unix.Rpc)

  let level (_ : Chain_stock_v1.Calls.Level.In.t) : Chain_stock_v1.Calls.Level.response =
    Ok { pieces = 12L; places = [ { Chain_stock_v1.Types.Place.aisle = Some 3L; pieces = 12L } ] }
end

module Slow = struct
  include Ready

  let level inputs =
    say "began";
    Thread.delay 1000.;
    level inputs
end

module Serve_unix = Serving (Sapwood_unix.Rpc)
module Serve_lwt = Serving (Sapwood_lwt.Rpc)
module Serve_ready = Chain_stock_v1.Stock_server_dispatcher (Sapwood_unix.Rpc) (Ready)
module Serve_slow = Chain_stock_v1.Stock_server_dispatcher (Sapwood_unix.Rpc) (Slow)

let serve url queue interfaces =
  let open Sapwood_unix in
  let session = Session.connect url in
  ignore (Session.create session ~queue);
  Session.subscribe session queue;
  say "serving";
  Rpc.serve session queue interfaces

let serve_lwt url queue interfaces =
  let open Sapwood_lwt in
  Lwt_main.run
    (Lwt.bind (Session.connect url) (fun session ->
         say "serving";
         Rpc.serve session queue interfaces))

(* --- clients *)

let rec tree depth : Every_every_v1.Types.Tree.t =
  if depth = 0 then { name = ""; below = []; next = None }
  else { name = "ü𝄞\000\"\\"; below = [ tree (depth - 1); tree 0 ]; next = Some (tree 0) }

let plain : All.t =
  {
    int = 0L;
    float = 0.;
    str = "";
    bool = false;
    self = ();
    lists = [];
    maybe = None;
    by_number = [];
    by_text = [];
    texts = { first = ""; second = "" };
  }

let values : All.t list =
  [
    plain;
    {
      int = Int64.max_int;
      float = -1e300;
      str = "\000\xe2\x80\xa8𝄞\"\\/\n";
      bool = true;
      self = ();
      lists =
        [
          Cases.Class Int64.min_int;
          Pair ("", tree 3);
          Inner (Inner (Inner None));
          May_be None;
          May_be (Some 0.1);
          Nothing ();
          None;
        ];
      maybe = Some (Class 1L);
      by_number = [ (Int64.min_int, []); (7L, [ "a"; "" ]) ];
      by_text = [ ("", None); ("ü", Some 3L) ];
      texts = { first = "1"; second = "2" };
    };
    { plain with int = Int64.min_int; float = 5e-324 };
    { plain with int = Int64.of_int max_int; float = 9007199254740993. };
    { plain with int = Int64.succ (Int64.of_int max_int); float = 0.1 };
  ]

module Ask (Rpc : Sapwood.S.RPC with type 'a io = 'a) = struct
  module Every = Every_every_v1.Client (Rpc)
  module Records = Every_every_v1.Record_client (Rpc)
  module Second = Every_every_v2.Client (Rpc)

  let ended act =
    match act () with
    | said -> say "%s" said
    | exception Sapwood.Errors.Service fault -> say "%s" fault.Sapwood.Fault.code
    | exception Sapwood.Errors.Bad_reply text -> say "bad reply: %s" text
    | exception Sapwood.Json.Wrong text -> say "wrong: %s" text

  let echo rpc from () =
    match Every.echo rpc ~from ?lambda:from.All.maybe () with
    | Ok { all; maybe } -> if all = from && maybe = from.maybe then "same" else "differs"
    | Error (`Gone number) -> Printf.sprintf "gone %Ld" number
    | Error (`Wrong value) -> if value = from then "wrong, the same" else "differs"

  let all rpc =
    List.iter (fun each -> ended (echo rpc each)) values;
    List.iter (fun str -> ended (echo rpc { plain with str })) [ "gone"; "wrong"; "undeclared"; "not finite" ];
    ended (echo rpc { plain with float = Float.infinity });
    ended (echo rpc { plain with str = "\xff" });
    ended (echo rpc { plain with by_text = [ ("a", None); ("a", None) ] });
    ended (fun () -> match Records.nothing rpc () with Error `Closed -> "closed" | Error `Silent -> "silent" | Ok () -> "ok");
    ended (fun () -> match Second.nothing rpc () with Ok { said } -> said | Error _ -> .);
    ended (fun () -> match Second.version rpc ~version:"9.9" () with Ok { said } -> said | Error _ -> .)
end

module Ask_unix = Ask (Sapwood_unix.Rpc)
module Stock_client = Chain_stock_v1.Client (Sapwood_unix.Rpc)

let () =
  let url = Sys.argv.(2) in
  let connect ?(timeout = 60.) () = Sapwood_unix.Rpc.at ~timeout (Sapwood_unix.Rpc.connect url) in
  match Sys.argv.(1) with
  | "unix" -> serve url "every" [ Serve_unix.First.interface; Serve_unix.Second.interface ]
  | "lwt" -> serve_lwt url "every" [ Serve_lwt.First.interface; Serve_lwt.Second.interface ]
  | "test" -> serve url "every" [ Serve_unix.Test.interface ]
  | "ask" -> Ask_unix.all (connect ())
  | "slow" -> serve url "stock" [ Serve_slow.interface ]
  | "ready" -> serve url "stock" [ Serve_ready.interface ]
  | "level" -> (
      match Stock_client.level (connect ()) ~article:4711L () with
      | Ok { pieces; _ } -> say "%Ld pieces" pieces
      | Error (`No_such_article number) -> say "there is no %Ld" number)
  | "late" -> (
      match Stock_client.level (connect ~timeout:3. ()) ~article:4711L () with
      | _ -> say "an answer"
      | exception Sapwood.Errors.Call_timeout text -> say "%s" text)
  | other -> failwith other
